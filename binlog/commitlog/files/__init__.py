"""The mapped files of a store, their queue, and the pool of buffers in shared memory."""
