"""The playground, `tensorlang play`: a page to write programs on, with everything known about them shown beside.

answers    question -> answer: what a page shows of a program
server     the page and the answers, by HTTP, for this machine only
page.html  the page; it sends questions while the user types, and its address contains the program
"""
