#!/usr/bin/env bash
# Writes src/hush/report/vendor/echarts.min.js anew, the same byte for byte: what ECharts needs, it names by exact versions.
set -euo pipefail
ECHARTS=6.1.0
ESBUILD=0.25.12
here="$(cd "$(dirname "$0")" && pwd)"
vendor="$here/../../src/hush/report/vendor"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --prefix "$work" "echarts@$ECHARTS" "esbuild@$ESBUILD"
cp "$here/entry.mjs" .
node_modules/.bin/esbuild entry.mjs --bundle --minify --format=iife --global-name=echarts --target=es2020 \
    --charset=ascii --legal-comments=none --log-level=warning --outfile="$vendor/echarts.min.js" \
    --banner:js="/*! Apache ECharts $ECHARTS, Apache License 2.0; zrender, BSD 3-Clause; tslib, 0BSD */"
cp node_modules/echarts/LICENSE "$vendor/LICENSE-echarts"
cp node_modules/echarts/NOTICE "$vendor/NOTICE-echarts"
cp node_modules/zrender/LICENSE "$vendor/LICENSE-zrender"
cp node_modules/tslib/LICENSE.txt "$vendor/LICENSE-tslib"
(cd "$vendor" && sha256sum echarts.min.js > SHA256SUMS)
