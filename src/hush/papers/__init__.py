"""A folder for each paper: every table and figure as a function, with the claims it must show."""

from hush.papers.alignment.page import ALIGNMENT
from hush.papers.clipping.fair import FAIR
from hush.papers.clipping.page import CLIPPING
from hush.papers.fa_ld.page import LANGEVIN
from hush.papers.fedpaq_dp.page import FEDPAQ
from hush.papers.keeping import Runs
from hush.papers.secure_sum.page import SECURE_SUM
from hush.papers.writing import Claim, Lab, Paper, Picture, Section, cells, claims_table, write

PAPERS: dict[str, Paper] = {
    "fedpaq-dp": FEDPAQ,
    "clipping": CLIPPING,
    "clipping-fair": FAIR,
    "alignment": ALIGNMENT,
    "fa-ld": LANGEVIN,
    "secure-sum": SECURE_SUM,
}

__all__ = ["PAPERS", "Claim", "Lab", "Paper", "Picture", "Runs", "Section", "cells", "claims_table", "write"]
