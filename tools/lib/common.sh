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
  [build]='g++ meson ninja-build pkg-config python3 libcli11-dev libexpected-dev libfmt-dev
    libgmock-dev libgtest-dev liburing-dev libtomlplusplus-dev'
  [test]='binutils clang-format-19 cmake codespell git iproute2 shellcheck'
  [clang]='clang-19 libclang-rt-19-dev'
  [tidy]='clang-19 clang-format-19 clang-tidy-19 codespell git shellcheck'
  [bench]='libboost-dev libdpdk-dev libuv1-dev'
  [gate]='valgrind'
)

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || printf '%s\n' "$package"
  done
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
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  mkdir -p build
  { "${as_root[@]}" apt-get update &&
    "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } \
    </dev/null >build/apt.log 2>&1 || {
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

# Sanitizer builds: -O1 is quick to build and keeps stack traces whole. Their optimiser sees code
# that the sanitizer wrote, so warnings are the plain builds' business.
meson_options_of() {
  local sanitized='-Dbuildtype=debugoptimized -Doptimization=1 -Dwerror=false -Db_lundef=false'
  case "$1" in
    gcc | clang) ;;
    asan-gcc | asan-clang) echo "$sanitized -Db_sanitize=address,undefined" ;;
    tsan | tsan-clang) echo "$sanitized -Db_sanitize=thread" ;;
    fuzz) echo "$sanitized -Db_sanitize=address,undefined -Dfuzz=true" ;;
    bench) echo '-Dbuildtype=release -Dcpu_baseline=x86-64-v3 -Dbench=true' ;;
    *) die "unknown build '$1'" "one of: ${build_names[*]}" 2 ;;
  esac
}

# configure NAME: makes build/NAME, anew where this function made it with other options. A folder
# that somebody set up by hand stays as it is.
configure() {
  local dir="build/$1" options stamp
  local -a words how=()
  options=$(meson_options_of "$1")
  stamp="$(compiler_of "$1") $options"
  read -ra words <<<"$options"
  if [ -f "$dir/build.ninja" ]; then
    [ -f "$dir/options" ] || return 0
    [ "$(cat "$dir/options")" != "$stamp" ] || return 0
    how=(--wipe)
  fi
  mkdir -p "$dir"
  CXX=$(compiler_of "$1") meson setup "${how[@]}" "$dir" "${words[@]}" >"$dir.log" 2>&1 || {
    tail -n 20 "$dir.log" >&2
    die "meson could not set up $dir ($dir.log)" "rm -r $dir, then again"
  }
  echo "$stamp" >"$dir/options"
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
  configure "$name"
  # A suite or a test program is known before anything is built, and Meson builds only what it
  # needs; programs have to be there to be asked for their test cases.
  if [ $# -eq 1 ] || ! select_tests "$@" 2>/dev/null || grep -q ^filter "build/$name/selected"; then
    build "$name"
    select_tests "$@" || return 2
  fi
  run_selected "$name"
}

select_tests() {
  python3 tools/lib/test_select.py "build/$1" "${@:2}" >"build/$1/selected"
}

run_selected() {
  local name="$1" kind value part
  local -a together=() alone=() options=()
  case "$name" in
    asan-* | tsan* | fuzz) options=(--timeout-multiplier 5) ;;
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
    meson test -C "build/$name" --print-errorlogs --logbase "$part" \
      "${options[@]}" "${tests[@]}" </dev/null || true
  done
  python3 tools/lib/test_report.py "build/$name" tools/lib/ci-skips
}

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
