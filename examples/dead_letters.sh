#!/bin/sh
# A dead letter, and its way back: a worker with a mistake gives a message up; a better one gets the message again.
#
#     sh examples/dead_letters.sh DIR
#
# The worker here is `grep`: it succeeds if the message is an amount, and fails otherwise.
set -eu
log=$1

printf '%s\n' 17.20 'EUR 3.00' 5.40 | binlog append "$log"
binlog group create "$log" billing --deliveries-max 2 --first 0

echo 'a worker that takes amounts without a currency:'
binlog group work "$log" billing --timeout 1s -- grep -x '[0-9.]*'
binlog group dead ls "$log" billing

echo 'a worker that takes both:'
binlog group dead retry "$log" billing --reason 'exit code 1'
binlog group work "$log" billing --timeout 1s -- grep -x '[A-Z ]*[0-9.]*'
binlog group stat "$log" billing

# The dead letters are a log, which keeps them until they are dropped.
binlog group dead drop "$log" billing --all
