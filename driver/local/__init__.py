"""`driver local`: the chart's run on emulated TPU slices on this machine."""
