#!/bin/bash
# start_site.sh FOLDER COMMAND PORT: start the command in FOLDER/files. Exits with 0 once the port accepts connections,
# with 2 once the command has ended, and with 1 after a timeout, each with the output of the command.
# Bash connects by itself, which costs less than another program.
cd "$1/files" || exit 1
# shellcheck disable=SC2016 # the inner shells expand them
setsid sh -c 'echo $$ > ../pid; exec sh -c "$1"' sh "$2" </dev/null >../log 2>&1 &
status=1
while [ $SECONDS -lt 15 ]; do
  (exec 3<>"/dev/tcp/127.0.0.1/$3") 2>/dev/null && exit
  read -r process 2>/dev/null <"/proc/$!/stat" && [[ $process != *") Z "* ]] || { status=2; break; }
  sleep 0.01
done
cat ../log
exit $status
