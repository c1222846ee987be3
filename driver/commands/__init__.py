"""One module per command of `driver`.

The command line finds the modules of this folder by itself: `data.py` is `driver data`, `data_prepare.py` would be
`driver data-prepare`. Each defines `command`, a click command or group. A module is imported when its command is asked
for, so it may import what it needs at its top; only heavy libraries belong inside the functions that use them, because
`driver --help` imports all modules for their first lines.
"""
