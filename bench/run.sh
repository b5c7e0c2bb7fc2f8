#!/bin/sh
# What `make bench`, `make bench-peers` and `make bench-smoke` run; bin/udfgate must be built.
#
#   bench/run.sh             phases, values, vector, crossing, traffic, billcost and tabular
#   bench/run.sh phases      what the gateway adds per row, beside CPython alone
#   bench/run.sh values      the Python worker's conversion of rows, beside pyarrow's
#   bench/run.sh vector      what the gateway adds to whole columns, beside a plain copy; a batch of 100 MB
#   bench/run.sh crossing    a one-row crossing beside a raw echo
#   bench/run.sh traffic     the gateway's own CPU and memory per GB, beside arrow-go's
#   bench/run.sh billcost    what the bill adds to a call
#   bench/run.sh tabular     the most memory of a call over Parquet files of growing size
#   bench/run.sh peers       RUNS (3) times all servers side by side, then the table; further words go to compare.py
#   bench/run.sh smoke       a few seconds of each, without the rivals
#
# PEERS_PYTHON names the interpreter of all workers and rivals, PEERS_HOME a folder with their environments;
# see bench/peers/setup.py.
set -eu
cd "$(dirname "$0")/.."

boot=$(command -v python3 || command -v python)
python=$("$boot" bench/peers/setup.py --base)
client=$("$boot" bench/peers/setup.py --of ref)
results=.data/bench

load() { cut -d' ' -f1 /proc/loadavg; }
steal() { awk '/^cpu /{print $9}' /proc/stat; }

# measured TITLE COMMAND…: the command, then a line that says how busy the machine was.
measured() {
	printf '\n### %s\n\n' "$1"
	shift
	load_before=$(load) steal_before=$(steal)
	"$@"
	printf '\nload before %s, after %s; steal %s ticks\n' "$load_before" "$(load)" $(($(steal) - steal_before))
}

phases() { measured "Phases" go run ./bench/phases -python "$python" "$@"; }

# pyarrow is not in the base interpreter: these two run on the client's environment.
values() {
	"$boot" bench/peers/setup.py ref
	measured "Values of rows" "$client" pool/runtime/python/bench/values.py "$@"
}

vector() {
	"$boot" bench/peers/setup.py ref
	measured "Whole columns" go run ./bench/vector -python "$client" "$@"
}

crossing() {
	UDFGATE_TEST_PYTHON=$python measured "Crossing" \
		go test ./pool -count 1 -run '^$' -bench '^BenchmarkCrossing$' -benchtime 1x "$@"
}

traffic() {
	mkdir -p "$results"
	go build -o "$results/echo" ./bench/echo
	measured "Traffic" go run ./bench/traffic -echo "$results/echo" -python "$python" "$@"
}

billcost() { measured "The cost of the bill" go run ./bench/billcost -python "$python" "$@"; }

tabular() { measured "Parquet" go run ./bench/tabular -python "$python" "$@"; }

# settle waits until the machine is quiet again, at most a minute: compiling and the last run must not weigh on the next.
settle() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
		[ "$(load | cut -d. -f1)" -ge 1 ] || return 0
		sleep 5
	done
	echo "the machine does not come to rest (load $(load)): measuring all the same"
}

peers() {
	"$boot" bench/peers/setup.py
	mkdir -p "$results"
	rm -f "$results"/run-*.json
	run=1
	while [ "$run" -le "${RUNS:-3}" ]; do
		settle
		printf '\n### Run %s of %s\n\n' "$run" "${RUNS:-3}"
		"$client" bench/peers/compare.py --python "$python" --json "$results/run-$run.json" "$@"
		run=$((run + 1))
	done
	printf '\n### Servers side by side\n\n'
	"$client" bench/peers/table.py "$results"/run-*.json
}

smoke() {
	"$boot" bench/peers/setup.py ref
	"$client" bench/peers/compare.py --smoke --python "$python"
	phases -calls 2 -rows 4096
	values --rows 4096 --rounds 2
	vector -calls 10 -large 20000000 -rest 100ms
	crossing -short
	traffic -rounds 1 -slice 0.02 -total 0.2
	billcost -pairs 4 -slice 20ms
	tabular -gib 0.1
}

what=${1:-all}
[ $# -eq 0 ] || shift
case $what in
all)
	settle
	phases
	values
	settle
	vector
	crossing
	settle
	traffic
	settle
	billcost
	tabular
	;;
phases | values | vector | crossing | traffic | billcost | tabular | peers | smoke) "$what" "$@" ;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' bench/run.sh >&2
	exit 2
	;;
esac
