#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# batch.sh OPTIONS... runs the command as a batch job with these options, and prints the
# output of the batch job. Its exit code is that of the batch job.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
id=$(flux batch --output=kvs --error=kvs "$@" "$fe_here/batch-job.sh") || exit
flux job attach "$id"
