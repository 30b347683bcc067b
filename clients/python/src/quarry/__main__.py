"""`python -m quarry`: the command `quarry`."""

from quarry._programs import quarry

if __name__ == "__main__":
    quarry()
