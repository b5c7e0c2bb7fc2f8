package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed is a line that is completed at its end, and what is offered.
type completed struct {
	line string
	want string // of what is offered, in any order
}

// offers are the same in every shell. Files are those of the folder that the
// shell runs in: geo.py and "two words.yaml".
var offers = []completed{
	{"udfgate se", "serve"},
	{"udfgate comp", "completion"},
	{"udfgate completion ", "bash fish zsh"},
	{"udfgate completion z", "zsh"},
	{"udfgate serve --log-l", "--log-level"},
	{"udfgate serve --max-c", "--max-connections"},
	{"udfgate serve --log-level w", "warn"},
	{"udfgate serve geo.py --log-format ", "json text"},
	{"udfgate serve g", "geo.py"},
	{"udfgate call f --input ge", "geo.py"},
	{"udfgate call f --bi", "--bill"},
	{"udfgate version --js", "--json"},
	{"udfgate demo --conf", "--config"},
	{"udfgate serve --python two", "two words.yaml"},
	{"udfgate functions --addr x", ""},
	{"udfgate serve --workers g", ""},
}

// completionFolder has the program, the script and the files of offers.
func completionFolder(t *testing.T, shell string) (dir string, environ []string) {
	t.Helper()
	dir = t.TempDir()
	var script strings.Builder
	if code := run([]string{"completion", shell}, nil, &script, os.Stderr); code != exitDone {
		t.Fatalf("exit status %d", code)
	}
	for name, text := range map[string]string{
		"script": script.String(), "geo.py": "", "two words.yaml": "", "udfgate": "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	return dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=dumb")
}

func shellProgram(t *testing.T, shell string) string {
	t.Helper()
	program, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed: its completion script is not run", shell)
	}
	return program
}

func output(t *testing.T, dir string, environ []string, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	var stderr strings.Builder
	c.Dir, c.Env, c.Stderr = dir, environ, &stderr
	out, err := c.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, out, stderr.String())
	}
	return string(out)
}

func checkOffers(t *testing.T, line, want, out string) {
	t.Helper()
	got := strings.Split(strings.TrimRight(out, "\n"), "\n")
	slices.Sort(got)
	if wanted := strings.Join(slices.Compact(got), " "); wanted != want {
		t.Errorf("%q: offered %q, want %q", line, wanted, want)
	}
}

func TestCompletion_bash(t *testing.T) {
	program := shellProgram(t, "bash")
	dir, environ := completionFolder(t, "bash")
	all := append(offers,
		completed{"udfgate --h", "--help"},
		// bash makes a word of its own of "=".
		completed{"udfgate serve --log-level = d", "debug"},
		completed{"udfgate serve --log-level =", "debug error info warn"},
		completed{"udfgate --config ge", "geo.py"},
	)
	const offer = `source script
read -ra COMP_WORDS <<<"$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_udfgate
printf '%s\n' "${COMPREPLY[@]}"`
	for _, o := range all {
		checkOffers(t, o.line, o.want, output(t, dir, environ, program, "--norc", "-c", offer, "bash", o.line))
	}
}

// fish is asked as a person would be: it has a command for that.
func TestCompletion_fish(t *testing.T) {
	program := shellProgram(t, "fish")
	dir, environ := completionFolder(t, "fish")
	for _, o := range offers {
		out := output(t, dir, environ, program, "--no-config", "-c", `source script; complete -C $argv[1]`, o.line)
		var words []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			words = append(words, strings.ReplaceAll(word, `\`, ""))
		}
		checkOffers(t, o.line, o.want, strings.Join(words, "\n"))
	}
}

// zsh completes in its line editor only, which needs a terminal: zpty is one.
// What compadd is given is what would be offered.
func TestCompletion_zsh(t *testing.T) {
	program := shellProgram(t, "zsh")
	dir, environ := completionFolder(t, "zsh")
	const offer = `zmodload zsh/zpty || exit 3
line=$1
zpty inner zsh -f -i
say() { zpty -w inner "$1" }
say 'PROMPT= RPROMPT=; stty -echo; autoload -U compinit; compinit -u -d dump'
say 'source ./script'
say 'compadd() { if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
typeset -a hits; builtin compadd -O hits "$@"; print -rl -- "<"${^hits}">" >>offered; return 1 }'
say 'list-and-end() { zle complete-word; print -r -- END >>offered; exit }; zle -N list-and-end; bindkey "^I" list-and-end'
say 'bindkey "^X" list-and-end; touch offered'
zpty -w -n inner "$line"$'\t'
for i in {1..400}; do
    [[ -f offered && $(<offered) == *END* ]] && break
    zpty -r -t inner junk 2>/dev/null
    sleep 0.02
done
zpty -d inner
cat offered`
	for _, o := range offers {
		_ = os.Remove(filepath.Join(dir, "offered"))
		out := output(t, dir, environ, program, "-f", "-c", offer, "zsh", o.line)
		var words []string
		for line := range strings.Lines(out) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "<") && line != "<>" {
				words = append(words, strings.ReplaceAll(strings.Trim(line, "<>"), `\`, ""))
			}
		}
		checkOffers(t, o.line, o.want, strings.Join(words, "\n"))
	}
}
