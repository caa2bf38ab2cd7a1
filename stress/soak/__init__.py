"""Hours of work, after which nothing may have grown."""
