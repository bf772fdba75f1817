"""The files of a plan's answer."""

from dataclasses import replace

from hush.extras import missing
from hush.plans.answer import Plan
from hush.plans.folder import NETWORK, SETTINGS, TRIALS, PlanFolder
from hush.plans.written import network_tables, run_tables
from hush.privacy import NoGuarantee
from hush.settings import dumps


def write(answer: Plan, files: PlanFolder) -> Plan:
    """Everything that is worth keeping, in the plan's folder."""
    best, scene = answer.best[0], answer.scene
    files.write(TRIALS, answer.trials.to_csv(index=False))
    settings = dumps(run_tables(scene, best, answer.target))
    files.write(SETTINGS, settings)
    try:
        files.write(NETWORK, dumps(network_tables(scene, best, answer.target)))
    except NoGuarantee as error:
        answer = replace(answer, findings=dict(answer.findings) | {"network": str(error)})
    if not missing("matplotlib"):
        from hush.plans.page import write_page

        write_page(answer, files.path, settings)
    return answer
