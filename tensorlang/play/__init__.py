"""The playground, `tensorlang play`: a page on which a program is written, and all that is known of it stands beside it.

answers    question -> answer: what a page shows of a program
server     the page and the answers, by HTTP, for this machine alone
page.html  the page; it asks while one types, and the address has the program
"""
