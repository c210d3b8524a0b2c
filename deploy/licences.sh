#!/bin/sh
# Prints the licences of others' code that is in numo: each crate with its licence, then each text once, with the crates that bring it.
# `deploy/Dockerfile` puts them into the image, as the certification for OpenShift wants them at /licenses. A release has the same of all
# its programs (tests/xtask/src/release/sbom.rs). From the root of the repository, after a build:
#   sh deploy/licences.sh x86_64-unknown-linux-gnu
set -eu
target=$1
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT

# What comes from no registry is numo's own, and has a path behind its name.
crates=$(cargo tree --locked --package numo --target "$target" --edges normal,build --prefix none --no-dedupe \
  --format '{p}|{l}' | sed 's/ (proc-macro)//' | grep -v ' (/' | sort --unique)
test -n "$crates"

cat <<EOF
numo is licensed under the Apache License 2.0. Its program holds the code of others, each crate with its licence. A crate
that brings no text of its own names its authors instead; the text of its licence stands below, as others bring it.

EOF
echo "$crates" | while IFS='|' read -r crate licence; do
  name=${crate%% *} version=${crate##* v}
  folder=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-$version" | head -n 1)
  test -d "$folder"
  echo "$name $version: $licence"
  found=
  for file in "$folder"/*; do
    case $(basename "$file" | tr '[:upper:]' '[:lower:]') in
      license* | licence* | copying* | notice* | copyright* | unlicense*) ;;
      *) continue ;;
    esac
    test -f "$file" || continue
    digest=$(sha256sum <"$file" | cut -c 1-64)
    cp "$file" "$texts/$digest"
    echo "$name $version" >>"$texts/$digest.crates"
    found=yes
  done
  if [ -z "$found" ]; then
    authors=$(awk '/^authors = \[/ { on = 1 } on { print } on && /\]/ { exit }' "$folder/Cargo.toml" |
      grep -o '"[^"]*"' | tr -d '"' | paste -s -d , | sed 's/,/, /g')
    echo "  by ${authors:-its authors}"
  fi
done
for crates in $(grep --no-messages '' --max-count 1 "$texts"/*.crates | sort --key 2 --field-separator : | cut -d : -f 1); do
  printf '\n%080d\n' 0 | tr 0 =
  paste -s -d , "$crates" | sed 's/,/, /g'
  printf '%080d\n\n' 0 | tr 0 =
  tr -d '\r' <"${crates%.crates}"
done
