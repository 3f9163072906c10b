"""The files of ``recipe render --as``, of a recipe with odd values, as a person has read them."""

from dataclasses import replace

import pytest

from gb10.serving.deploy.deployment import containers_of
from gb10.serving.deploy.forms import FORMS
from gb10.serving.run.service import ContainerSettings
from tests.deployments import deployment
from tests.golden.conftest import Golden

SCRIPT = '#!/bin/sh\n# launch.sh in short\nleast=$1 # 100%\necho "$((least / 1024))" \\\n  $$\n'


@pytest.mark.parametrize("form", FORMS)
def test_a_form(form: str, golden: Golden) -> None:
    options = ContainerSettings(memory=1 << 30, restart=True)
    hosts, rdma = (("me@one", "two"), "rdma/shared") if form == "k8s" else (("me@one",), None)
    made = deployment(form, *hosts, options=options, rdma=rdma)
    for file in FORMS[form](replace(made, containers=containers_of(made.service, SCRIPT)))[:2]:
        golden(f"render/forms/{form}/{file.name}", file.text)
