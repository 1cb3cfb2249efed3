# shellcheck shell=bash
# Shared by tools/run, tools/test, tools/dev and .ci/run: messages, packages, build folders, tests.
# Sourced, never run. The caller has set -euo pipefail and stands in the top folder.

say() { printf '%s\n' "$*" >&2; }

# die WHAT FIX [EXIT_CODE]: an error that a person sees names its remedy.
die() {
  printf 'error: %s\nfix: %s\n' "$1" "$2" >&2
  exit "${3:-1}"
}

# usage_of FILE: prints the block of comments at the top of FILE, without the marks.
usage_of() { sed -n '2,/^$/{s/^# \{0,1\}//p}' "$1"; }

# ---------------------------------------------------------------------------------------------
# Packages

declare -A packages=(
  # dpkg-dev: without it Meson does not know Debian's multiarch library folder, and installs to one
  # that neither the linker nor pkg-config looks into.
  [build]='dpkg-dev g++ meson ninja-build pkg-config python3 libcli11-dev libdpdk-dev
    libexpected-dev libfmt-dev libgmock-dev libgtest-dev liburing-dev libtomlplusplus-dev'
  [test]='binutils clang-format-19 cmake codespell ethtool git iproute2 iputils-ping python3-scapy
    shellcheck spin tcpdump traceroute'
  [clang]='clang-19 libclang-rt-19-dev'
  [tidy]='clang-19 clang-format-19 clang-tidy-19 codespell git shellcheck'
  [bench]='libasio-dev libboost-dev libevent-dev liblwip-dev libuv1-dev'
  [gate]='valgrind'
)

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Waits for whoever else is installing. A source that can't be reached is no error by itself: the
# packages may be known without it.
install_packages() {
  local -a apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update || echo "apt-get update failed; going on with what is known"
  "${apt[@]}" install -y --no-install-recommends "$@"
}

# need GROUP…: installs what is missing of the groups in `packages`.
need() {
  [ -z "${PINION_NO_INSTALL:-}" ] || return 0
  local group
  local -a wanted=() missing=() as_root=() words
  for group in "$@"; do
    read -rd '' -a words <<<"${packages[$group]}" || true
    wanted+=("${words[@]}")
  done
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "this is not Debian: no apt-get to install packages with" \
      "install the equivalents of ${wanted[*]}, then set PINION_NO_INSTALL=1"
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "packages are missing, and this is neither root nor is there sudo" \
        "as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  mkdir -p build
  install_packages "${missing[@]}" </dev/null >build/apt.log 2>&1 || {
    tail -n 5 build/apt.log >&2
    die "apt-get could not install ${missing[*]} (build/apt.log)" \
      "as root: apt-get update && apt-get install ${missing[*]}"
  }
}

# ---------------------------------------------------------------------------------------------
# Build folders: build/NAME

build_names=(gcc clang asan-gcc asan-clang tsan tsan-clang fuzz bench)

compiler_of() {
  case "$1" in
    clang | asan-clang | tsan-clang | fuzz) echo clang++-19 ;;
    *) echo g++ ;;
  esac
}

# Sanitizer builds: -O1 is quick to build and keeps stack traces whole. g++'s optimiser sees code
# that the sanitizer wrote, and warns of it; clang's warnings come from what the programmer wrote.
meson_options_of() {
  local sanitized='-Dbuildtype=debugoptimized -Doptimization=1 -Db_lundef=false'
  case "$1" in
    gcc) echo '-Dwerror=true' ;;
    # Without precompiled headers, so that one build sees which file lacks an include.
    clang) echo '-Dwerror=true -Db_pch=false' ;;
    asan-gcc) echo "$sanitized -Db_sanitize=address,undefined" ;;
    asan-clang) echo "$sanitized -Dwerror=true -Db_sanitize=address,undefined" ;;
    tsan | tsan-clang) echo "$sanitized -Db_sanitize=thread" ;;
    fuzz) echo "$sanitized -Db_sanitize=address,undefined -Dfuzz=true" ;;
    bench) echo '-Dbuildtype=release -Dwerror=true -Dcpu_baseline=x86-64-v3 -Dbench=true' ;;
    *) die "unknown build '$1'" "one of: ${build_names[*]}" 2 ;;
  esac
}

# What a build folder was configured with: compiler, options, and the defaults of the options that
# were not given. Meson itself never gives a folder new defaults.
stamp_of() {
  printf '%s %s ' "$(compiler_of "$1")" "$(meson_options_of "$1")"
  { sed -n '/default_options/,/\]/p' meson.build; cat meson_options.txt; } | cksum
}

# configure NAME: makes build/NAME, anew where this function made it from other options; results of
# benches stay. A folder that somebody set up by hand keeps its options.
configure() {
  local dir="build/$1" options stamp
  local -a words
  options=$(meson_options_of "$1")
  stamp=$(stamp_of "$1")
  if [ -f "$dir/build.ninja" ]; then
    if [ ! -f "$dir/options" ] || [ "$(cat "$dir/options")" = "$stamp" ]; then
      ninja -C "$dir" build.ninja >"$dir.log" 2>&1 || cannot_configure "$dir"
      return
    fi
    find "$dir" -mindepth 1 -maxdepth 1 ! -name '*.json' ! -name index.html -exec rm -r {} +
  fi
  mkdir -p "$dir"
  read -ra words <<<"$options"
  CXX=$(compiler_of "$1") meson setup "$dir" "${words[@]}" >"$dir.log" 2>&1 ||
    cannot_configure "$dir"
  echo "$stamp" >"$dir/options"
}

cannot_configure() {
  tail -n 20 "$1.log" >&2
  die "meson could not set up $1 ($1.log)" "rm -r $1, then again"
}

# build NAME [TARGET…]
build() {
  local name="$1"
  shift
  configure "$name"
  ninja -C "build/$name" "$@" ||
    die "build/$name did not build" "see the first error above; CXX is $(compiler_of "$name")"
}

# ---------------------------------------------------------------------------------------------
# Tests

# build_and_test NAME [PATTERN]: builds and runs the tests of build/NAME that PATTERN names, as
# test_select.py tells. Those that need real time run alone, after the others. Prints the count as
# its last line; 1 when a test failed, 2 when PATTERN names none.
build_and_test() {
  local name="$1"
  local -a targets=()
  configure "$name"
  # A suite or a test program is known before anything is built; programs have to be there to be
  # asked for their test cases.
  if [ $# -eq 1 ] || ! select_tests "$@" 2>/dev/null || grep -q ^filter "build/$name/selected"; then
    build "$name"
    select_tests "$@" || return 2
  else
    mapfile -t targets < <(sed -n 's/^target\t//p' "build/$name/selected")
    [ "${#targets[@]}" -eq 0 ] || build "$name" "${targets[@]}"
  fi
  run_selected "$name"
}

# The chosen tests go to build/NAME/selected.
select_tests() {
  python3 tools/lib/test_select.py "build/$1" "${@:2}" >"build/$1/selected"
}

run_selected() {
  local name="$1" kind value part
  # A time limit is for what hangs, also where others use the machine.
  local -a together=() alone=() options=(--timeout-multiplier 4)
  case "$name" in
    asan-* | tsan* | fuzz) options=(--timeout-multiplier 10) ;;
  esac
  [ -z "${PINION_TEST_SCALE:-}" ] || options=(--timeout-multiplier 0)
  while IFS=$'\t' read -r kind value; do
    case "$kind" in
      filter) options+=("--test-args=--gtest_filter=$value") ;;
      alone) alone+=("$value") ;;
      together) together+=("$value") ;;
    esac
  done <"build/$name/selected"
  # Meson's exit code is not looked at: the report reads what it wrote, crashes included.
  for part in together alone; do
    local -n tests="$part"
    rm -f "build/$name/meson-logs/$part".*
    [ "${#tests[@]}" -gt 0 ] || continue
    [ "$part" = together ] || options+=(--num-processes 1)
    meson test -C "build/$name" --no-rebuild --print-errorlogs --logbase "$part" \
      "${options[@]}" "${tests[@]}" </dev/null || true
  done
  python3 tools/lib/test_report.py "build/$name" tools/lib/ci-skips
}

# Without it ccache keeps nothing of what has a precompiled header in front.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}pch_defines,time_macros"

# What the user sets comes last, and wins.
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1\
${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
