"""The pages that a browser sees, on the Hub's own `page.html`: one module a page.

A page is rendered whole, and each of its parts that changes can be asked for by itself: the same
address with `part=<name>`. So a page that is live shows what the server says, and no rule is
written twice.
"""
