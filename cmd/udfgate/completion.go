package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is kong's: it stands below the one line of the command.
func (*completionCmd) Help() string {
	return "Example: source <(udfgate completion bash)"
}

// Run prints the script. It is made from the commands as they are, so that it
// never lags behind them.
func (c *completionCmd) Run(con *console, ctx *kong.Context) error {
	write := map[string]func([]completion) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := io.WriteString(con.out, write(completions(ctx.Model)))
	return err
}

// completion is what can follow one command.
type completion struct {
	name, help string
	flags      []word
	args       []word // what stands behind it, repeated
}

// word is a flag or an argument and what its value can be.
type word struct {
	name, help string
	plain      bool     // a switch: no value
	values     []string // the only values
	files      bool     // a file or folder
}

func completions(app *kong.Application) []completion {
	var all []completion
	for _, node := range app.Children {
		c := completion{name: node.Name, help: node.Help}
		for _, flag := range slices.Concat(node.Flags, app.Flags) {
			c.flags = append(c.flags, wordOf(flag.Value, flag.PlaceHolder))
		}
		for _, arg := range node.Positional {
			c.args = append(c.args, wordOf(arg, strings.ToUpper(arg.Name)))
		}
		all = append(all, c)
	}
	return all
}

// wordOf tells files from other values by the placeholder: FILE, FILE.py, PATH.
func wordOf(v *kong.Value, placeholder string) word {
	w := word{name: v.Name, help: v.Help, plain: v.IsBool()}
	if v.Enum != "" {
		w.values = choices(v)
	}
	w.files = strings.HasPrefix(placeholder, "FILE") || strings.HasPrefix(placeholder, "PATH")
	return w
}

// names are the flags with their dashes.
func (c completion) names() string {
	var all []string
	for _, f := range c.flags {
		all = append(all, "--"+f.name)
	}
	return strings.Join(all, " ")
}

// bashScript works in bash 3.2 too, which macOS has: there is no compopt then.
// "=" is a word of its own to bash.
func bashScript(all []completion) string {
	var commands []string
	var cases strings.Builder
	for _, c := range all {
		commands = append(commands, c.name)
		fmt.Fprintf(&cases, "    %s)\n        flags='%s'\n        case $before in\n", c.name, c.names())
		for _, f := range c.flags {
			switch {
			case f.plain:
			case f.values != nil:
				fmt.Fprintf(&cases, "        --%s) words='%s' flags= ;;\n", f.name, strings.Join(f.values, " "))
			case f.files:
				fmt.Fprintf(&cases, "        --%s) files=1 flags= ;;\n", f.name)
			default:
				fmt.Fprintf(&cases, "        --%s) flags= ;;\n", f.name)
			}
		}
		argument := ""
		for _, a := range c.args {
			if argument = "words='" + strings.Join(a.values, " ") + "'"; a.files {
				argument = "files=1"
			}
		}
		fmt.Fprintf(&cases, "        *) %s ;;\n        esac ;;\n", strings.TrimSpace(argument+" "))
	}
	return fmt.Sprintf(`# bash completion of udfgate: source <(udfgate completion bash)
_udfgate() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files= flags= command= i
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case " %[1]s " in
        *" ${COMP_WORDS[i]} "*) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    case $command in
    '') if [[ $before == --config ]]; then files=1; else words='%[1]s' flags='--help --config'; fi ;;
%[2]s    esac
    COMPREPLY=()
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$current"))
    elif [[ $files ]]; then
        local IFS=$'\n'
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$current"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    fi
}
complete -F _udfgate udfgate
`, strings.Join(commands, " "), cases.String())
}

// zshScript may be sourced, or lie in a folder of fpath under the name
// _udfgate.
func zshScript(all []completion) string {
	quote := strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`)
	value := func(w word) string {
		switch {
		case w.values != nil:
			return "(" + strings.Join(w.values, " ") + ")"
		case w.files:
			return "_files"
		}
		return " "
	}
	var commands, cases strings.Builder
	for _, c := range all {
		fmt.Fprintf(&commands, "        '%s:%s'\n", c.name, strings.ReplaceAll(c.help, "'", `'\''`))
		fmt.Fprintf(&cases, "    %s)\n        _arguments \\\n", c.name)
		for _, f := range c.flags {
			spec := fmt.Sprintf("--%s[%s]", f.name, quote.Replace(f.help))
			if !f.plain {
				spec = fmt.Sprintf("*--%s=[%s]:%s:%s", f.name, quote.Replace(f.help), f.name, value(f))
			}
			fmt.Fprintf(&cases, "            '%s' \\\n", spec)
		}
		for _, a := range c.args {
			fmt.Fprintf(&cases, "            '*:%s:%s' \\\n", a.name, value(a))
		}
		cases.WriteString("            && return ;;\n")
	}
	return fmt.Sprintf(`#compdef udfgate
# zsh completion of udfgate: source <(udfgate completion zsh), after compinit
_udfgate() {
    local -a commands
    local curcontext=$curcontext state line
    commands=(
%s    )
    _arguments -C '--config=[file of settings]:config:_files' '--help[print the help]' '1: :->command' '*:: :->rest' && return
    case $state in
    command) _describe command commands; return ;;
    esac
    case $line[1] in
%s    esac
}
if [[ $funcstack[1] == _udfgate ]]; then _udfgate "$@"; else compdef _udfgate udfgate; fi
`, commands.String(), cases.String())
}

func fishScript(all []completion) string {
	quote := strings.NewReplacer(`\`, `\\`, "'", `\'`)
	var b strings.Builder
	b.WriteString("# fish completion of udfgate: udfgate completion fish | source\n" +
		"complete -c udfgate -f\n" +
		"complete -c udfgate -l config -rF -d 'file of settings'\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c udfgate -n __fish_use_subcommand -a %s -d '%s'\n", c.name, quote.Replace(c.help))
		on := "complete -c udfgate -n '__fish_seen_subcommand_from " + c.name + "'"
		for _, f := range c.flags {
			value := " -x"
			switch {
			case f.plain:
				value = ""
			case f.values != nil:
				value = " -xa '" + strings.Join(f.values, " ") + "'"
			case f.files:
				value = " -rF"
			}
			fmt.Fprintf(&b, "%s -l %s%s -d '%s'\n", on, f.name, value, quote.Replace(f.help))
		}
		for _, a := range c.args {
			switch {
			case a.values != nil:
				fmt.Fprintf(&b, "%s -a '%s'\n", on, strings.Join(a.values, " "))
			case a.files:
				fmt.Fprintf(&b, "%s -F\n", on)
			}
		}
	}
	return b.String()
}
