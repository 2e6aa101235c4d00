"""Runs a program for which some system calls are refused: with EPERM, as in a container with a strict profile, or with
another errno, as by a kernel that does not know them (38).

filtered.py NUMBER[=ERRNO],… PROGRAM ARGUMENTS…
"""

import ctypes
import os
import struct
import sys

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000

instructions = [(LOAD, 0, 0, 0)]
for word in sys.argv[1].split(","):
    number, _, errno = word.partition("=")
    instructions += [(EQUAL, 0, 1, int(number)), (RETURN, 0, 0, REFUSE | int(errno or 1))]
instructions.append((RETURN, 0, 0, ALLOW))
code = b"".join(struct.pack("HBBI", *one) for one in instructions)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(SECCOMP, FILTER, program, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])
