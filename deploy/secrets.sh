#!/bin/sh
# Writes the secrets that docker-compose.yml mounts: sh deploy/secrets.sh [FOLDER]. What is there already stays as it is.
# Files are readable to all, for the containers' users have other ids; the folder is its owner's alone.
set -eu
folder=${1:-secrets}
umask 022
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

random() { openssl rand -hex 32; }

[ -e secret_key ] || random > secret_key

if [ ! -e postgres_password ]; then
  password=$(random)
  printf '%s\n' "$password" > postgres_password
  printf 'postgresql://portal:%s@postgres:5432/portal\n' "$password" > database_url
fi

# Who has no password may ask whether the server is up, and nothing else. The portal's user may not look at or change the
# server itself (@admin), nor what empties or stops it (@dangerous), but for INFO, which Celery asks for.
if [ ! -e valkey_acl ]; then
  password=$(random)
  hash=$(printf %s "$password" | openssl dgst -sha256 -r | cut -d ' ' -f 1)
  cat > valkey_acl <<ACL
user default on nopass resetkeys resetchannels -@all +ping
user portal on #$hash ~* &* +@all -@admin -@dangerous +info
ACL
  printf 'rediss://portal:%s@valkey:6379/0?ssl_ca_certs=/run/secrets/valkey_cert\n' "$password" > redis_url
fi

# Signed by itself, and trusted by the portal alone: for ten years.
if [ ! -e valkey_cert ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 3650 -subj /CN=valkey \
    -addext 'subjectAltName = DNS:valkey, DNS:localhost' -keyout valkey_key -out valkey_cert 2> /dev/null
  chmod 644 valkey_key
fi
