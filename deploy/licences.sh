#!/bin/sh
# Prints the licences of others' code that is in numo: each crate with its licence, then each text once, with the crates that bring it.
# `deploy/Dockerfile` puts them into the image, as the certification for OpenShift wants them at /licenses. A release has the same of all
# its programs (tests/xtask/src/release/sbom.rs). From the root of the repository, after a build:
#   sh deploy/licences.sh x86_64-unknown-linux-gnu
set -eu
target=$1
texts=$(mktemp)
trap 'rm -f "$texts" "$texts.sums"' EXIT

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
  set -- "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-$version"
  folder=$1
  test -d "$folder"
  echo "$name $version: $licence"
  found=
  for file in "$folder"/[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]* "$folder"/[Cc][Oo][Pp][Yy][Ii][Nn][Gg]* "$folder"/[Nn][Oo][Tt][Ii][Cc][Ee]* \
    "$folder"/[Cc][Oo][Pp][Yy][Rr][Ii][Gg][Hh][Tt]* "$folder"/[Uu][Nn][Ll][Ii][Cc][Ee][Nn][Ss][Ee]*; do
    test -f "$file" || continue
    echo "$name $version|$file" >>"$texts"
    found=yes
  done
  if [ -z "$found" ]; then
    authors=$(awk '/^authors = \[/ { on = 1 } on { print } on && /\]/ { exit }' "$folder/Cargo.toml" |
      grep -o '"[^"]*"' | tr -d '"' | paste -s -d , | sed 's/,/, /g')
    echo "  by ${authors:-its authors}"
  fi
done
cut -d '|' -f 2 "$texts" | tr '\n' '\0' | xargs -0 sha256sum >"$texts.sums"
# A line of sums is a digest, two spaces and the path.
awk '
  FNR == NR { split($0, both, "|"); of[both[2]] = both[1]; next }
  {
    digest = $1; path = substr($0, length(digest) + 3)
    if (digest in text) { brought[digest] = brought[digest] ", " of[path]; next }
    text[digest] = path; brought[digest] = of[path]; order[++number] = digest
  }
  END {
    line = sprintf("%80s", ""); gsub(/ /, "=", line)
    for (at = 1; at <= number; at++) {
      printf "\n%s\n%s\n%s\n\n", line, brought[order[at]], line
      while ((getline words <text[order[at]]) > 0) { sub(/\r$/, "", words); print words }
      close(text[order[at]])
    }
  }' "$texts" "$texts.sums"
