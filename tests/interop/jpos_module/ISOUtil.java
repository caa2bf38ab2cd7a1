package org.jpos.iso;

/** All that the module needs of jPOS. */
public final class ISOUtil {
    private ISOUtil() {
    }

    public static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
