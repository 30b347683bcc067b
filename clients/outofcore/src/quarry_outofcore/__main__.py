"""`python -m quarry_outofcore` is `quarry-pod`."""

from quarry_outofcore._pod_command import program

program()
