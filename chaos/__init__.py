"""Crashes, on purpose: kills, power cuts, full and failing disks, flipped bits, and a checker of what came through."""
