"""The soak: hours of work, after which nothing may have grown."""
