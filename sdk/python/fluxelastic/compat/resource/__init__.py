# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
