#!/usr/bin/env python3
"""Makes man pages and shell completion from what programs say to --help-json.

    make_help.py --output FOLDER --version 1.2.3 PROGRAM...

writes FOLDER/man1/NAME.1, FOLDER/bash/NAME, FOLDER/zsh/_NAME and FOLDER/fish/NAME.fish.
"""

import argparse
import json
import shutil
import subprocess
from pathlib import Path

HELP = {"names": ["-h", "--help"], "value": "", "description": "print the options"}
VERSION = {"names": ["--version"], "value": "", "description": "print the version"}


def is_positional(option):
    return not option["names"][0].startswith("-")


def options_of(command, is_program):
    """The options of a command, those that every command has too; without positional arguments."""
    options = [option for option in command["options"] if not is_positional(option)]
    names = {name for option in options for name in option["names"]}
    for common in (HELP, VERSION) if is_program else (HELP,):
        if not names.intersection(common["names"]):
            options.append(common)
    return options


def positionals_of(command):
    return [option for option in command["options"] if is_positional(option)]


# --- man pages ---


def roff(text):
    """Text as it stands, whatever characters it has."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.splitlines())


def roff_option(option):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option["names"])
    if option["value"]:
        names += f" \\fI{roff(option['value'])}\\fR"
    says = [option["description"]]
    if option.get("choices"):
        says.append("One of " + ", ".join(option["choices"]) + ".")
    if option.get("limits"):
        says.append(f"Limits: {option['limits']}.")
    if option.get("environment"):
        says.append(f"Environment: {option['environment']}.")
    if option.get("required"):
        says.append("Required.")
    return f".TP\n{names}\n" + "\n.br\n".join(roff(line) for line in says) + "\n"


def synopsis(words, command):
    parts = [f"\\fB{roff(words)}\\fR"]
    if command["commands"]:
        parts.append("\\fICOMMAND\\fR")
    parts.append("[\\fIOPTION\\fR]...")
    for option in positionals_of(command):
        name = f"\\fI{roff(option['names'][0])}\\fR" + ("..." if option["repeated"] else "")
        parts.append(name if option["required"] else f"[{name}]")
    return " ".join(parts)


def sentence(text):
    return text[:1].upper() + text[1:].rstrip(".") + "."


def option_list(command, is_program):
    """Positional arguments, then options, those with a heading of their own last."""
    lines = [roff_option(option) for option in positionals_of(command)]
    headings = {}
    for option in options_of(command, is_program):
        headings.setdefault(option.get("group") or "", []).append(option)
    for heading, options in sorted(headings.items(), key=lambda item: item[0] != ""):
        if heading:
            lines.append(f".SS {roff(heading)}")
        lines += [roff_option(option) for option in options]
    return lines


def footer(command):
    return [".PP", ".nf", roff(command["footer"]), ".fi"] if command["footer"] else []


def man_page(program, version):
    """One page for a program and its subcommands."""
    name, description = program["name"], program["description"].rstrip(".")
    page = [f'.TH {name.upper()} 1 "" "Quarry {version}" "Quarry"', ".SH NAME",
            f"{roff(name)} \\- {roff(description[:1].lower() + description[1:])}", ".SH SYNOPSIS",
            synopsis(name, program), ".SH DESCRIPTION", roff(sentence(description)), ".SH OPTIONS",
            *option_list(program, True)]
    for command in program["commands"]:
        words = f"{name} {command['name']}"
        page += [f'.SH "{roff(words.upper())}"', roff(sentence(command["description"])), ".PP", synopsis(words, command),
                 *option_list(command, False), *footer(command)]
    if program["footer"]:
        page += [".SH NOTES", *footer(program)]
    return "\n".join([*page, ""])


# --- bash ---


def bash_case(command, is_program):
    """Completions after an option that has a value, and the options."""
    lines = ["      case $previous in"]
    for option in options_of(command, is_program):
        if not option["value"]:
            continue
        names = "|".join(option["names"])
        if option.get("choices"):
            lines.append(f'        {names}) COMPREPLY=($(compgen -W "{" ".join(option["choices"])}" -- "$current")); return;;')
        elif option["value"] == "PATH":
            lines.append(f'        {names}) COMPREPLY=($(compgen -f -- "$current")); return;;')
        else:
            lines.append(f"        {names}) return;;")
    names = " ".join(name for option in options_of(command, is_program) for name in option["names"])
    return [*lines, "      esac", f'      words="{names}"']


def bash(program):
    function = "_" + program["name"].replace("-", "_")
    commands = " ".join(command["name"] for command in program["commands"])
    lines = [f"{function}() {{", '  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}',
             '  local command="" word words', "  COMPREPLY=()",
             '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do', f'    case " {commands} " in',
             '      *" $word "*) command=$word; break;;', "    esac", "  done", "  case $command in"]
    for command in program["commands"]:
        lines += [f"    {command['name']})", *bash_case(command, False), "      ;;"]
    lines += ["    *)", *bash_case(program, True)]
    if commands:
        lines.append(f'      words="{commands} $words"')
    lines += ["      ;;", "  esac"]
    files = '[ -n "$command" ] && ' if commands else ""
    lines += [f'  if [[ $current != -* ]] && {files}true; then', '    COMPREPLY=($(compgen -f -- "$current"))', "  else",
              '    COMPREPLY=($(compgen -W "$words" -- "$current"))', "  fi", "}",
              f"complete -o filenames -F {function} {program['name']}", ""]
    return "\n".join(lines)


# --- zsh ---


def zsh_text(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_arguments(command, is_program):
    lines = []
    for option in options_of(command, is_program):
        value = ""
        if option["value"]:
            action = f"({' '.join(option['choices'])})" if option.get("choices") else \
                     "_files" if option["value"] == "PATH" else ""
            value = f":{option['value']}:{action}"
        for name in option["names"]:
            lines.append(f"    '{name}[{zsh_text(option['description'])}]{value}'")
    return lines


def zsh(program):
    lines = [f"#compdef {program['name']}", "local state"]
    if not program["commands"]:
        return "\n".join([*lines, "_arguments \\", " \\\n".join([*zsh_arguments(program, True), "    '*:file:_files'"]), ""])
    commands = " ".join(f"{command['name']}\\:\"{zsh_text(command['description'])}\"" for command in program["commands"])
    lines += ["_arguments -C \\", " \\\n".join([*zsh_arguments(program, True), f"    '1:command:(({commands}))'",
                                             "    '*::argument:->arguments'"]),
              "[[ $state == arguments ]] && case $words[1] in"]
    for command in program["commands"]:
        lines += [f"  {command['name']}) _arguments \\",
                  " \\\n".join([*zsh_arguments(command, False), "    '*:file:_files'"]) + ";;"]
    return "\n".join([*lines, "esac", ""])


# --- fish ---


def fish_options(program, command, condition, is_program):
    lines = []
    for option in options_of(command, is_program):
        line = f"complete -c {program}{condition}"
        for name in option["names"]:
            line += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
        if option["value"]:
            line += " -r" if option["value"] == "PATH" else " -x"
        if option.get("choices"):
            line += f" -a '{' '.join(option['choices'])}'"
        description = option["description"].replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"{line} -d '{description}'")
    return lines


def fish(program):
    name = program["name"]
    none_yet = " -n __fish_use_subcommand" if program["commands"] else ""
    lines = fish_options(name, program, none_yet, True)
    for command in program["commands"]:
        description = command["description"].replace("'", "\\'")
        lines.append(f"complete -c {name} -f -n __fish_use_subcommand -a {command['name']} -d '{description}'")
        lines += fish_options(name, command, f" -n '__fish_seen_subcommand_from {command['name']}'", False)
    return "\n".join([*lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()

    folders = {name: arguments.output / name for name in ("man1", "bash", "zsh", "fish")}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for path in arguments.programs:
        said = subprocess.run([path, "--help-json"], check=True, capture_output=True, text=True).stdout
        program = json.loads(said)
        name = program["name"]
        (folders["man1"] / f"{name}.1").write_text(man_page(program, arguments.version))
        (folders["bash"] / name).write_text(bash(program))
        (folders["zsh"] / f"_{name}").write_text(zsh(program))
        (folders["fish"] / f"{name}.fish").write_text(fish(program))


if __name__ == "__main__":
    main()
