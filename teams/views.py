"""Pages of the person who is signed in: signing in and out, the profile with its tokens."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from foundation import clock
from foundation.errors import PortalError, RateLimited
from teams import credentials, queries, services, sign_ins
from teams.actors import actor_of
from teams.devices import remember_device
from teams.errors import LinkUnusable
from teams.forms import PasswordForm, SignInForm, TokenForm, add_errors
from teams.models import Team, User
from teams.sign_ins import Way

BACKEND = "django.contrib.auth.backends.ModelBackend"
WRONG = "This username and password do not fit together."


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in page. 422 for a wrong password, 429 with Retry-After while guesses are held."""
    target = _safe_target(request)
    if request.user.is_authenticated:
        return redirect(target)
    if request.method != "POST":
        return _sign_in_page(request, SignInForm(), target)
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _sign_in_page(request, form, target, status=422)
    username, password = form.cleaned_data["username"], form.cleaned_data["password"]
    try:
        user = sign_ins.with_password(request, username=username, password=password, way=Way.PASSWORD)
    except RateLimited as error:
        form.add_error(None, error.message)
        return _held(_sign_in_page(request, form, target, status=429), error)
    if user is None:
        form.add_error("password", WRONG)
        return _sign_in_page(request, form, target, status=422)
    return _signed_in(request, user, target)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """A one-time link: GET asks, POST uses it up, so that a preview of the link does not. 410 when unusable."""
    now = clock.now()
    try:
        if request.method != "POST":
            link = credentials.usable_sign_in_link(plain=token, now=now)
            response = render(request, "teams/sign_in_link.html", {"person": link.user})
        else:
            user = sign_ins.with_link(request, plain=token)
            response = _signed_in(request, user, _safe_target(request))
    except (LinkUnusable, RateLimited) as error:
        response = render(
            request, "teams/sign_in_link_unusable.html", {"message": error.message}, status=error.status
        )
        if isinstance(error, RateLimited):
            _held(response, error)
    # The link stays out of every Referer. Not "no-referrer": browsers then send `Origin: null` with the form.
    response["Referrer-Policy"] = "strict-origin"
    return response


@never_cache
def admin_sign_in(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
    """The admin console's sign-in: the portal's own, so that attempts are counted there too."""
    del extra_context
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied
    target = _safe_target(request)
    if request.user.is_authenticated:
        return redirect(target if target != request.path else "admin:index")
    return redirect_to_login(
        request.GET.get("next") or resolve_url("admin:index"), resolve_url("teams:sign-in")
    )


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect("teams:sign-in")


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    """Who I am, my teams, my tokens. POST makes a token, whose secret is in that one answer and nowhere else."""
    user = _user(request)
    teams = Team.objects.filter(memberships__user=user)
    if request.method != "POST":
        return _profile_page(request, TokenForm(teams=teams))
    form = TokenForm(request.POST, teams=teams)
    if not form.is_valid():
        return _profile_page(request, form, status=422)
    try:
        token, secret = services.create_token(
            actor=actor_of(request), user=user, now=clock.now(), **form.cleaned_data
        )
    except PortalError as error:
        add_errors(form, error)
        return _profile_page(request, form, status=422)
    return _profile_page(request, TokenForm(teams=teams), new_token=token, new_secret=secret)


@login_required
@require_POST
def token_revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """Revoke one of my tokens."""
    token = queries.tokens_of(_user(request)).filter(public_id=token_id).first()
    if token is None:
        raise Http404
    services.revoke_token(actor=actor_of(request), token=token, now=clock.now())
    messages.success(request, f"Token {token.name} is revoked.")
    return redirect("teams:profile")


@sensitive_post_parameters("old_password", "new_password", "new_password_again")
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """My password: POST replaces it, which ends my other sessions. 422 for what will not do, 429 while guesses are held."""
    user = _user(request)
    if not user.has_usable_password() or request.method != "POST":
        return _password_page(request, PasswordForm())
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _password_page(request, form, status=422)
    old, new = form.cleaned_data["old_password"], form.cleaned_data["new_password"]
    try:
        changed = sign_ins.change_password(request, old=old, new=new)
    except RateLimited as error:
        form.add_error(None, error.message)
        return _held(_password_page(request, form, status=429), error)
    except PortalError as error:
        add_errors(form, error, {"password": "new_password"})
        return _password_page(request, form, status=422)
    update_session_auth_hash(request, changed)
    messages.success(request, "Your password is changed. Other sessions have ended.")
    return redirect("teams:profile")


@never_cache
@login_required
def admin_password(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
    """The admin console's pages of the password: the portal's own, which counts guesses and tells the audit trail."""
    del request, extra_context
    return redirect("teams:password")


def _signed_in(request: HttpRequest, user: User, target: str) -> HttpResponse:
    """On to `target` with a session, in a browser that is known from now on."""
    login(request, user, backend=BACKEND)
    response = redirect(target)
    remember_device(request, response, user.get_username())
    return response


def _held(response: HttpResponse, error: RateLimited) -> HttpResponse:
    response["Retry-After"] = str(error.retry_after_seconds)
    return response


def _user(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise Http404
    return request.user


def _safe_target(request: HttpRequest) -> str:
    """Where to go after signing in: `next`, if it stays on this site."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and safe and "\x00" not in wanted else resolve_url("/")


def _sign_in_page(request: HttpRequest, form: SignInForm, target: str, status: int = 200) -> HttpResponse:
    return render(request, "teams/sign_in.html", {"form": form, "next": target}, status=status)


def _profile_page(request: HttpRequest, form: TokenForm, status: int = 200, **extra: Any) -> HttpResponse:
    user = _user(request)
    context = {
        "person": user,
        "form": form,
        "tokens": queries.tokens_of(user).order_by("-created_at")[:200],
        "memberships": queries.memberships_of(user),
        "now": clock.now(),
        **extra,
    }
    return render(request, "teams/profile.html", context, status=status)


def _password_page(request: HttpRequest, form: PasswordForm, status: int = 200) -> HttpResponse:
    return render(request, "teams/password.html", {"form": form, "person": _user(request)}, status=status)
