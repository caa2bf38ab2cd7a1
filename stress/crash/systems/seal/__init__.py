"""The system of a sealed log: writers, and a sealer with an anchor."""
