"""The playground, `tensorlang play`: programs are written on a page, and what is known of them stands beside.

answers    question -> answer: what a page shows of a program
server     the page and the answers, by HTTP, for this machine alone
page.html  the page; it asks while one types, and the address has the program
"""
