"""A folder for each paper: every table and figure as a function, with the claims it must show."""

from hush.papers.alignment.page import ALIGNMENT
from hush.papers.clipping.page import CLIPPING
from hush.papers.fedpaq.page import FEDPAQ
from hush.papers.langevin.page import LANGEVIN
from hush.papers.writing import Claim, Lab, Paper, Picture, Section, cells, claims_table, write

PAPERS: dict[str, Paper] = {"fedpaq": FEDPAQ, "clipping": CLIPPING, "alignment": ALIGNMENT, "langevin": LANGEVIN}

__all__ = ["PAPERS", "Claim", "Lab", "Paper", "Picture", "Section", "cells", "claims_table", "write"]
