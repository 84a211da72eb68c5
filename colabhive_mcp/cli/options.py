"""The settings' table as flags: each command says which groups of settings it uses, and gets them loaded.

Knows click and the table. Own options of a command are explained on its help page, settings only named there: the page
stays short, and `config --help` explains each.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from colabhive_mcp.cli.exits import warn
from colabhive_mcp.config import SETTINGS, Setting, Settings, load_settings
from colabhive_mcp.kinds import SWITCH

GROUPS = {
    "gateway": "The gateway",
    "manifest": "The manifest",
    "filters": "Which tools are offered",
    "listing": "How tools are listed",
    "calls": "Calls",
    "server": "The server",
    "relay": "The relay",
    "logs": "Logs",
}
Callback = Callable[..., Any]


class SettingOption(click.Option):
    """The flag of one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        switch = setting.kind is SWITCH
        flag = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if switch else setting.flag
        super().__init__(
            [flag, setting.name],
            default=None,
            type=bool if switch else str,
            metavar=None if switch else setting.kind.metavar,
            multiple=setting.kind.many,
            help=_explain(setting),
        )


def _explain(setting: Setting) -> str:
    default = setting.default
    if default is None or default == ():
        return setting.help
    return f"{setting.help} [{str(default).lower() if isinstance(default, bool) else f'{default}'.removesuffix('.0')}]"


class ProfileOption(click.Option):
    """``--profile``, which chooses the file of all other settings."""

    def __init__(self) -> None:
        super().__init__(["--profile"], metavar="NAME", help="Read the settings of profiles/NAME.toml.")


class SettingsHelp(click.Command):
    """A help page that explains the command's own options and names its settings, or with *explain* explains both."""

    explain = False

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options first, then the settings."""
        params = self.get_params(ctx)
        own = [param for param in params if not isinstance(param, SettingOption | click.Argument)]
        settings = [param for param in params if isinstance(param, SettingOption)]
        _write_options("Options", own, ctx, formatter)
        if settings and self.explain:
            _write_settings(settings, ctx, formatter)
        elif settings:
            _name_settings(settings, formatter)


class ExplainedHelp(SettingsHelp):
    """The help page that explains every setting."""

    explain = True


def _write_options(
    title: str, params: list[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def _write_settings(settings: list[SettingOption], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    for group, title in GROUPS.items():
        rows: list[click.Parameter] = [option for option in settings if option.setting.group == group]
        _write_options(title, rows, ctx, formatter)


def _name_settings(settings: list[SettingOption], formatter: click.HelpFormatter) -> None:
    flags = " ".join(option.opts[0] for option in settings)
    with formatter.section("Settings (colabhive-mcp config --help explains them)"):
        indent = " " * formatter.current_indent
        lines = textwrap.wrap(
            flags, formatter.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        formatter.write("\n".join(lines) + "\n")


def with_settings(*groups: str, later: bool = False) -> Callable[[Callback], Callback]:
    """Give a command the flags of *groups*, and its function the `Settings` as first argument.

    With *later* it gets the function that loads them. Each doubt about them is told on stderr.
    """
    names = [setting.name for setting in SETTINGS if setting.group in groups]

    def decorate(function: Callback) -> Callback:
        @functools.wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            flags = {name: options.pop(name) for name in names}
            profile = options.pop("profile")

            def load_aloud() -> Settings:
                settings = load(flags, profile)
                for sentence in settings.warnings:
                    warn(sentence)
                return settings

            return function(load_aloud if later else load_aloud(), *args, **options)

        return add_flags(run, *groups)

    return decorate


def add_flags(function: Callback, *groups: str) -> Callback:
    """Give *function* the flags of *groups*, and ``--profile``, as click's decorators do."""
    rows = [SettingOption(setting) for setting in SETTINGS if setting.group in groups]
    params: list[click.Parameter] = function.__dict__.setdefault("__click_params__", [])
    params[:0] = [*reversed(rows), ProfileOption()]
    return function


def is_given(value: Any) -> bool:
    """Whether a flag was on the command line."""
    return value is not None and value != ()


def refuse_strange(given: Mapping[str, Any], used: Collection[str], command: str) -> None:
    """Refuse flags before the name of a *command* that uses none of them, as click does with those after it."""
    for name, value in given.items():  # any command's own faults are shown by the log's level
        if is_given(value) and name not in used and name != "log_level":
            raise click.UsageError(f"--{name.replace('_', '-')} means nothing to {command}.")


def load(flags: Mapping[str, Any], profile: str | None) -> Settings:
    """The settings from a command's own flags and those before its name."""
    given = {name: value for name, value in flags.items() if is_given(value)}
    outer = {name: value for name, value in click.get_current_context().find_root().params.items() if is_given(value)}
    before = outer.pop("profile", None)
    profile = before if profile is None else profile
    return load_settings(flags={**outer, **given}, profile=profile)
