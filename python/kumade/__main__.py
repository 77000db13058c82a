"""`python -m kumade`: the program."""

import os
import sys

from ._program import KumadeError, find_program

try:
    program = find_program()
except KumadeError as error:
    sys.exit(f"kumade: {error}")
os.execv(program, [program, *sys.argv[1:]])
