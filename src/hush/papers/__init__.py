"""One file per paper: every table and figure as a function, with the claims it must show."""

from hush.papers.alignment import ALIGNMENT
from hush.papers.clipping import CLIPPING
from hush.papers.fedpaq import FEDPAQ
from hush.papers.langevin import LANGEVIN
from hush.papers.writing import Claim, Lab, Paper, Picture, Section, cells, claims_table, write

PAPERS: dict[str, Paper] = {"fedpaq": FEDPAQ, "clipping": CLIPPING, "alignment": ALIGNMENT, "langevin": LANGEVIN}

__all__ = ["PAPERS", "Claim", "Lab", "Paper", "Picture", "Section", "cells", "claims_table", "write"]
