# The ports that this machine's sockets have, in hexadecimal, one a line; those of connections that ended are free.
for table in /proc/net/tcp /proc/net/tcp6; do
  if [ -r "$table" ]; then
    sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]\{4\}\) [0-9A-F]*:[0-9A-F]\{4\} 0[^6] .*/\1/p' "$table"
  fi
done
echo end
