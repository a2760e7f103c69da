#!/usr/bin/env bash
# The checks that need no build: format, includes, words, lengths, pages, headers that stand alone.
set -uo pipefail
cd "$(dirname "$0")/../.."
failed=0
for check in "format.sh --check" check_includes.py check_words.py check_targets.py check_ops.py check_lengths.py check_kernel_lines.py check_docs.py "api_pages.py --check" check_headers.py check_llvm_sources.sh "results_table.py --check" "triton_page.py --check" "../../bench/ladder.py page --check"; do
  if output=$(tools/dev/$check 2>&1); then
    echo "ok    $check"
  else
    echo "FAIL  $check"
    echo "$output" | head -60 | sed 's/^/  /'
    failed=1
  fi
done
exit $failed
