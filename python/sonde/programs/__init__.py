"""Programs that the command `sonde` runs in an interpreter that may not have Sonde.

Each is one file that works by itself, in any Python 3.6 or later; cmake/python_program.cmake compiles its text into the
command.
"""
