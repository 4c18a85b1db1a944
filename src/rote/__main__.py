"""`python -m rote`."""

from rote.cli.main import main

if __name__ == "__main__":
    main()
