"""`python -m tensorlang` is the command `tensorlang`."""

from tensorlang.cli import main

if __name__ == "__main__":
    main()
