"""One file per paper: every table and figure as a function, with the claims it must show."""

from hush.papers.fedpaq import FEDPAQ
from hush.papers.fedpaq_lab import Lab
from hush.papers.writing import Claim, Paper, Picture, Section, cells, claims_table, write

PAPERS: dict[str, Paper] = {"fedpaq": FEDPAQ}

__all__ = ["PAPERS", "Claim", "Lab", "Paper", "Picture", "Section", "cells", "claims_table", "write"]
