"""Runs and what they leave behind: records, folders, plots, reports."""
