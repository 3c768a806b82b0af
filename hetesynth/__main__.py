"""``python -m hetesynth``."""

from hetesynth.cli.main import main

if __name__ == "__main__":
    main()
