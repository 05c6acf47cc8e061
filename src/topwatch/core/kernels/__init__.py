"""Compiled functions over arrays that all algorithms share. They see numbers and slots, never ids or names."""
