from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from foundation import clock
from teams import services
from teams.actors import Actor
from teams.models import User

ADMIN = "admin"


class Command(BaseCommand):
    help = (
        "Print a link that signs one user in once. With --first: make the user admin where there is none yet."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?", default=ADMIN)
        parser.add_argument("--first", action="store_true", help="only where there is no user yet")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        actor, now = Actor.system("sign_in_link"), clock.now()
        if options["first"]:
            if User.objects.exists():
                return
            services.create_user(
                actor=actor, username=ADMIN, quota_manager=True, platform_admin=True, now=now
            )
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['username']}.")
        secret = services.create_sign_in_link(actor=actor, user=user, now=now)
        self.stdout.write(f"sign in as {user.username}, once: {settings.PUBLIC_URL}/sign-in/link/{secret}/")
