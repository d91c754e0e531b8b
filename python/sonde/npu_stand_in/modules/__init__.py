"""Modules that are imported by Ascend's names."""
