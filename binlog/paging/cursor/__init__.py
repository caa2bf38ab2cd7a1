"""A cursor over the pages of an address, with acknowledgements and delivery counts beside each page."""
