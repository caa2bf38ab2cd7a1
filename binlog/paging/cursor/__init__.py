"""A cursor over the pages of an address, with acknowledgements and delivery counts beside each page.

`cursor` gives messages to the consumer; `page_acks` records which are done; `page_removal` removes a page once all of
its messages are.
"""
