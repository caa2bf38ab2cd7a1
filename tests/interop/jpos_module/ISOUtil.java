package org.jpos.iso;

/* The part of jPOS that the module needs. */
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
