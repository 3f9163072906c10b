"""What every apt of ours is set to: a folder of its own, no hook and no architecture of the machine, few retries."""

from typing import Final

APT_SETTINGS: Final = """\
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
Dir "{root}";
Dir::Etc "etc";
Dir::State "state";
Dir::State::status "{root}/status";
Dir::Cache "cache";
"""
"""The text of its configuration file; ``root`` is its folder."""
