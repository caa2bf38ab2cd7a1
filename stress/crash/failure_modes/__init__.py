"""The failure modes: power cuts, kills, faults and damage."""
