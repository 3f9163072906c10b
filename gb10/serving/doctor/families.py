"""The families of errors, in the order in which they are asked. Pure.

Each is seen by structure (exception, numbers, names), not by one wording. A family takes a case and returns a verdict,
or None when the case is not of it; its remedy depends on what the log and the image say.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gb10.serving.doctor.advice import BEGINS, own_advice
from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case
from gb10.serving.doctor.families_conditions import (
    CONDITION_FAMILIES,
    EARLY_CONDITION_FAMILIES,
    LATE_CONDITION_FAMILIES,
)
from gb10.serving.doctor.families_gpu import GPU_FAMILIES, LAST_GPU_FAMILIES, LATE_GPU_FAMILIES
from gb10.serving.doctor.families_network import NETWORK_FAMILIES
from gb10.serving.doctor.families_options import WRITTEN, options_in_the_message
from gb10.serving.doctor.families_packages import LATE_PACKAGE_FAMILIES, PACKAGE_FAMILIES
from gb10.serving.doctor.families_settings import LAST_SETTING_FAMILIES, LATE_SETTING_FAMILIES, SETTING_FAMILIES
from gb10.serving.doctor.families_stated import (
    file_of_another_release,
    name_nearly_right,
    remedy_stated,
    two_quantities,
    value_of_another_kind,
    variable_not_given,
)
from gb10.serving.doctor.rule_files import load_tool_errors
from gb10.serving.doctor.tool_errors import tool_family

Family = Callable[[Case], Verdict | None]

FAMILIES: Final[tuple[Family, ...]] = (
    file_of_another_release,
    tool_family(load_tool_errors, late=False),
    *PACKAGE_FAMILIES,
    name_nearly_right,
    variable_not_given,
    *NETWORK_FAMILIES,
    *SETTING_FAMILIES,
    *EARLY_CONDITION_FAMILIES,
    *GPU_FAMILIES,
    *CONDITION_FAMILIES,
    *LATE_SETTING_FAMILIES,
    *LATE_PACKAGE_FAMILIES,
    *LATE_GPU_FAMILIES,
    options_in_the_message,
    *LAST_GPU_FAMILIES,
    *LAST_SETTING_FAMILIES,
    *LATE_CONDITION_FAMILIES,
    two_quantities,
    tool_family(load_tool_errors, late=True),
    value_of_another_kind,
    remedy_stated,
)


def verdict_of(case: Case) -> Verdict | None:
    """What the first family says that knows the error, with what the message itself says of options."""
    found = next((verdict for family in FAMILIES if (verdict := family(case))), None)
    said = own_advice(case.text) if found else ""
    if found is None or found.echo or not WRITTEN.search(said) or BEGINS in found.action:
        return found
    return replace(found, action=f"{found.action} {said}")
